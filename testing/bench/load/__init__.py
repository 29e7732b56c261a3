"""What makes load: queues, senders, readers, questions."""
