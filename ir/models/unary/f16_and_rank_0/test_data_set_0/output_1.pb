
Boutput_1JÖ18;