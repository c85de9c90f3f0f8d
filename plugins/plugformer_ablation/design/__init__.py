"""What a study says: its file, its arms, and what makes them comparable."""
