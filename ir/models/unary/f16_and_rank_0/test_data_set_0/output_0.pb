
Boutput_0J$3#=dG