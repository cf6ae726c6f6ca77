Boutput_1J›¾AÖ
ÂkÒ¶¿