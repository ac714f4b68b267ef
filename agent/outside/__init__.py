"""What agentd sees from outside: health checks, services whose parent is another, devices on USB."""
