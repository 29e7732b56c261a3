"""What runs in the sandbox: modules of the standard library alone, copied into the folder of a program."""
