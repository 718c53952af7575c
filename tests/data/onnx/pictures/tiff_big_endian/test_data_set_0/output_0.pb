J#÷ue»i^w6 Q
ñI:PvfœÏ+S"j¢|N