"""Archives: runs that have ended, each as one file."""
