"""The API server: how to reach it, its objects, requests and watches. Decides nothing."""
