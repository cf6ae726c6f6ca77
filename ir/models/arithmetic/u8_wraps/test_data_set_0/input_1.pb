Binput_1J
2