"""What time moves: lost attempts, delayed runs, orphans."""
