Boutput_5J
