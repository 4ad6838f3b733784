"""Old clicks: lists that other systems showed, read from files and written into a service's log."""
