/* The operations of one set are those of no other. */

#undef ALL_16
#undef ALL_32
#undef ADD_16
#undef SUB_16
#undef MIN_16
#undef MAX_16
#undef LEFT_16
#undef RIGHT_16
#undef MADD
#undef MULTIPLY_32
#undef ZEROS
#undef ADD_32
#undef SHIFT_32
#undef PACK_32
#undef AND
#undef ANDNOT
#undef OR
#undef IS_ZERO_32
