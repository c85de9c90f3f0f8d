"""Ideas from papers, each a component in a short file of its own."""
