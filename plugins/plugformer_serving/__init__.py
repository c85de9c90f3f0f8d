"""`plugformer serve`: a trained model that answers over HTTP, and a page to try it."""
