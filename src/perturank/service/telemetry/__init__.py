"""What a serving process tells about itself: counters, the cost of exploration, Prometheus, log lines."""
