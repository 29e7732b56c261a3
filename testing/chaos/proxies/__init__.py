"""TCP and HTTP proxies that can cut, delay and garble."""
