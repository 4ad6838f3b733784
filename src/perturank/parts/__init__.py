"""What rankers are made of: pure array functions, one idea a file."""
