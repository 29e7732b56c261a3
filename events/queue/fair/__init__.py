"""Fair use: projects, what each has used, and which of them is asked first."""
