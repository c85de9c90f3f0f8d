"""Ablation studies: arms that differ in one part, trained fairly, compared with statistics, and reported."""
