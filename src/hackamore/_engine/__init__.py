"""The engine: from options to a command line, from lines to messages, states and answers. Private; shells and transports stand on it."""
