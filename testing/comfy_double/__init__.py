"""The double of a ComfyUI server: its HTTP and WebSocket interface as it is documented, and ways to lie."""
