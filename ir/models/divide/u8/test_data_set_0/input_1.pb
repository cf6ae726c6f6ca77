Binput_1J
