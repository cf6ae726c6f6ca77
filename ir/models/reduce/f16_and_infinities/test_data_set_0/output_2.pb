
Boutput_2J€@ C