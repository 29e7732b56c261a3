"""The statements of the queue, for whichever side carries them out; pure."""
