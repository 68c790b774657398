"""Orders in which images may lie in memory: channel by channel here, whatever is asked for."""

__all__ = ["channels_last", "channels_last_3d", "contiguous_format", "preserve_format"]

channels_last, channels_last_3d = "channels_last", "channels_last_3d"
contiguous_format, preserve_format = "contiguous_format", "preserve_format"
