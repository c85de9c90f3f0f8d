"""Model cards, and runs on the Hugging Face Hub."""
