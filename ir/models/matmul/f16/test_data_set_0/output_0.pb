
Boutput_0JG–BRF¿Ä