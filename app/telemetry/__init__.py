"""What those who watch the product get to see: derived from facts, at the edge."""
