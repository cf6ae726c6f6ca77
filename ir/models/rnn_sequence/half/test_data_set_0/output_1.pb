
Boutput_1JTT