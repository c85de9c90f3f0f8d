"""Looking inside a trained model: what its attentions weigh, what its positions do, how it learned.

Reading order: observation, attention, positions, log, then what draws them: figures, page, plot.
"""
