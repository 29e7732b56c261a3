"""Images: pictures from a text, by diffusers or by a ComfyUI server, lap after lap."""
