"""Known bugs, each in the race that shows it; the checker must see every one."""
