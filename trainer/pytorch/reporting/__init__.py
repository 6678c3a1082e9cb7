"""What a rank reports of its steps, to people and to programs."""
