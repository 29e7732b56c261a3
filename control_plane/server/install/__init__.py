"""What a machine installs to become a pod: this very podfleet as a wheel, and the lock of what it needs."""
