"""What a serving process tells about itself: counters, Prometheus, the dashboard's overview, alarms, log lines."""
