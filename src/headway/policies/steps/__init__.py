"""What policies are composed of: each step writes decisions into a draft."""
