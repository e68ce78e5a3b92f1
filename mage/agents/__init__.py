"""The language agent: context, chat format, parsing, messages and prompting methods."""
