
Boutput_2J>»Ö3¶;