"""What is stored: backups beside claims, and files by the control plane's own address."""
