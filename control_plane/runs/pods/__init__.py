"""What people decide about pods, and what follows from somebody looking at one."""
