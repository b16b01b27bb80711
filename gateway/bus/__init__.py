"""The bus on Redis: lanes, leases, deliveries. The only importer of `redis`; start at `bus.open_bus`."""
