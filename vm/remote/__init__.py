"""Tools of MCP servers: connections, pins, proposed manifests, and the provider that a machine calls."""
