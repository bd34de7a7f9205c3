"""What a developer runs on a laptop: the embedded servers, the demo, bench and chaos."""
