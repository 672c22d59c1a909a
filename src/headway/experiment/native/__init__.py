"""Training jobs under the real native scheduler and under Headway, on a real API server with simulated nodes."""
