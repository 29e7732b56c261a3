"""What concurrent requests share: a cache, singleflight, batching, a rate limit, a loop."""
