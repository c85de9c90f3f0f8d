"""How a study is run: cells, who trains them where, tuning, costs, and plans."""
