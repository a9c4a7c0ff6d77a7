"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi8>) -> (tensor<2x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<"0x000008001B3D0700C38C060032ED0500D15C05002DDA0400F763040002F903003A980300A84003006BF10200B8A90200D9680200252E020008F90100F8C801007C9D01002376010088520100513201002B150100CAFA0000EDE2000055CD0000CAB900001CA800001D980000A38900008A7C0000B0700000F7650000435C00007B530000894B000059440000D83D0000F6370000A2320000D12D00007529000083250000F1210000B61E0000CA1B000025190000C016000096140000A1120000DB100000400F0000CD0D00007C0C00004C0B0000390A0000400900005F08000093070000DA060000330600009C050000140500009804000028040000C30300006703000014030000C9020000850200004802000010020000DE010000B10100008701000062010000400100002201000006010000ED000000D7000000C2000000B00000009F0000009000000082000000760000006B00000061000000570000004F00000048000000410000003B00000035000000300000002B0000002700000024000000200000001D0000001A00000018000000160000001300000012000000100000000E0000000D0000000C0000000B0000000A0000000900000008000000070000000600000006000000050000000500000004000000040000000400000003000000030000000300000002000000020000000200000002000000020000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"> : tensor<1x256x1xi32>}> : () -> tensor<1x256x1xi32>
    %c5 = "tosa.const_shape"() <{values = dense<[1, 6]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c6 = "tosa.const_shape"() <{values = dense<[2, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c7 = "tosa.const"() <{values = dense<524288> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c8 = "tosa.const"() <{values = dense<0> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c9 = "tosa.const"() <{values = dense<1048576> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c10 = "tosa.const"() <{values = dense<1> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c11 = "tosa.const"() <{values = dense<2097152> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c12 = "tosa.const"() <{values = dense<4194304> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c13 = "tosa.const"() <{values = dense<8388608> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c14 = "tosa.const"() <{values = dense<16777216> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c15 = "tosa.const"() <{values = dense<33554432> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c16 = "tosa.const"() <{values = dense<67108864> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c17 = "tosa.const"() <{values = dense<134217728> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c18 = "tosa.const"() <{values = dense<11> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c19 = "tosa.const"() <{values = dense<-1010580540> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c20 = "tosa.const"() <{values = dense<31> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c21 = "tosa.const"() <{values = dense<1515870810> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c22 = "tosa.const"() <{values = dense<536870912> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c23 = "tosa.const"() <{values = dense<2> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c24 = "tosa.const"() <{values = dense<1073741824> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c25 = "tosa.const"() <{values = dense<1073741823> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c26 = "tosa.const"() <{values = dense<2147483647> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c27 = "tosa.const"() <{values = dense<"0xFFFFFF7F74B6D173782BCC688F21D35E120CCD5562CDA24DB6753F46871B903F7D9C83397C790A344CAD162F0D859B2A38888D265852E222417D901FFA878F1CC2BED719802C62178E83281582102513F6AA5211FBA6AC0F47CC2E0E2048D50C58A59C0B12C3810AF0CB8109B6309A08C59FC80739000B07526C5F061A2CC40528B237056E96B804479345041682DD0300587F03FA232A03A20BDD0276499702C22A5802AE0D1F020560EB01529DBC01CB4D92010B056C01E9604901B7082A011FAC0D017702F40003CADC0038C7C7004CC4B4008690A300D4FF930055EA8500EE2B7900FEA36D00F834630021C45900493951008A7E4900198042000A2C3C0027723600C443310098932C00A3552800067F2400EB0521006CE11D007B091B00D1761800D42216008F0714009C1F12001766100097D60E001B6D0D0006260C0011FE0A0046F20900F6FF0800B6240800535E0700D1AA0600640806006D75050071F004001D7804003D0B0400B9A80300954F0300ECFE0200F1B50200E7730200263802001502020029D10100E5A40100D87C01009A580100CF370100231A010049FF0000FEE6000003D100001FBD000020AB0000D79A00001B8C0000C57E0000B5720000CB670000EA5D0000FA540000E44C000093450000F43E0000F63800008B330000A32E0000332A00002F2600008D220000431F0000491C00009819000029170000F5140000F612000028110000860F00000C0E0000B60C0000800B0000680A00006A09000085080000B5070000FA06000050060000B60500002B050000AD0400003B040000D40300007703000022030000D602000091020000520200001A020000E7010000B80100008E0100006901000046010000270100000B010000F2000000DB000000C6000000B3000000A20000009300000085000000780000006D00000062000000590000005100000049000000420000003C00000036000000310000002C0000002800000024000000210000001E0000001B00000018000000160000001400000012000000100000000F0000000D0000000C0000000B0000000A000000090000000800000007000000070000000600000005000000050000000400000004000000040000000300000003000000030000000200000002000000020000000200000002000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"> : tensor<1x256x1xi32>}> : () -> tensor<1x256x1xi32>
    %c28 = "tosa.const"() <{values = dense<22> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c29 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c30 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("x_0")
    %1 = "tosa.reduce_max"(%0) <{axis = 1 : i32}> : (tensor<2x3xi8>) -> tensor<2x1xi8> loc("node")
    %2 = "tosa.cast"(%1) : (tensor<2x1xi8>) -> tensor<2x1xi32> loc("node")
    %3 = "tosa.cast"(%0) : (tensor<2x3xi8>) -> tensor<2x3xi32> loc("node")
    %4 = "tosa.sub"(%2, %3) : (tensor<2x1xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %5 = "tosa.reshape"(%4, %c5) : (tensor<2x3xi32>, !tosa.shape<2>) -> tensor<1x6xi32> loc("node")
    %6 = "tosa.gather"(%c4, %5) : (tensor<1x256x1xi32>, tensor<1x6xi32>) -> tensor<1x6x1xi32> loc("node")
    %7 = "tosa.reshape"(%6, %c6) : (tensor<1x6x1xi32>, !tosa.shape<2>) -> tensor<2x3xi32> loc("node")
    %8 = "tosa.reduce_sum"(%7) <{axis = 1 : i32}> : (tensor<2x3xi32>) -> tensor<2x1xi32> loc("node")
    %9 = "tosa.maximum"(%8, %c7) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %10 = "tosa.greater_equal"(%9, %c9) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi1> loc("node")
    %11 = "tosa.add"(%c8, %c10) : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x1xi32> loc("node")
    %12 = "tosa.select"(%10, %11, %c8) : (tensor<2x1xi1>, tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %13 = "tosa.greater_equal"(%9, %c11) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi1> loc("node")
    %14 = "tosa.add"(%12, %c10) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %15 = "tosa.select"(%13, %14, %12) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %16 = "tosa.greater_equal"(%9, %c12) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi1> loc("node")
    %17 = "tosa.add"(%15, %c10) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %18 = "tosa.select"(%16, %17, %15) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %19 = "tosa.greater_equal"(%9, %c13) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi1> loc("node")
    %20 = "tosa.add"(%18, %c10) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %21 = "tosa.select"(%19, %20, %18) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %22 = "tosa.greater_equal"(%9, %c14) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi1> loc("node")
    %23 = "tosa.add"(%21, %c10) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %24 = "tosa.select"(%22, %23, %21) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %25 = "tosa.greater_equal"(%9, %c15) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi1> loc("node")
    %26 = "tosa.add"(%24, %c10) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %27 = "tosa.select"(%25, %26, %24) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %28 = "tosa.greater_equal"(%9, %c16) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi1> loc("node")
    %29 = "tosa.add"(%27, %c10) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %30 = "tosa.select"(%28, %29, %27) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %31 = "tosa.greater_equal"(%9, %c17) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi1> loc("node")
    %32 = "tosa.add"(%30, %c10) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %33 = "tosa.select"(%31, %32, %30) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %34 = "tosa.sub"(%c18, %33) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %35 = "tosa.logical_left_shift"(%9, %34) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %36 = "tosa.mul"(%35, %c19, %c20) : (tensor<2x1xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %37 = "tosa.add"(%c21, %36) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %38 = "tosa.mul"(%35, %37, %c20) : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %39 = "tosa.sub"(%c22, %38) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %40 = "tosa.mul"(%37, %39, %c20) : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %41 = "tosa.logical_left_shift"(%40, %c23) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %42 = "tosa.add"(%37, %41) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %43 = "tosa.mul"(%35, %42, %c20) : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %44 = "tosa.sub"(%c22, %43) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %45 = "tosa.mul"(%42, %44, %c20) : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %46 = "tosa.logical_left_shift"(%45, %c23) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %47 = "tosa.add"(%42, %46) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %48 = "tosa.mul"(%35, %47, %c20) : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %49 = "tosa.sub"(%c22, %48) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %50 = "tosa.mul"(%47, %49, %c20) : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %51 = "tosa.logical_left_shift"(%50, %c23) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %52 = "tosa.add"(%47, %51) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %53 = "tosa.greater_equal"(%52, %c24) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi1> loc("node")
    %54 = "tosa.minimum"(%52, %c25) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %55 = "tosa.logical_left_shift"(%54, %c10) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %56 = "tosa.select"(%53, %c26, %55) : (tensor<2x1xi1>, tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %57 = "tosa.gather"(%c27, %5) : (tensor<1x256x1xi32>, tensor<1x6xi32>) -> tensor<1x6x1xi32> loc("node")
    %58 = "tosa.reshape"(%57, %c6) : (tensor<1x6x1xi32>, !tosa.shape<2>) -> tensor<2x3xi32> loc("node")
    %59 = "tosa.mul"(%56, %58, %c20) : (tensor<2x1xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %60 = "tosa.add"(%33, %c28) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %61 = "tosa.arithmetic_right_shift"(%59, %60) <{round = false}> : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32> loc("node")
    %62 = "tosa.add"(%61, %c10) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %63 = "tosa.arithmetic_right_shift"(%62, %c10) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %64 = "tosa.rescale"(%63, %c0, %c1, %c29, %c30) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<2x3xi8> loc("node")
    %65 = "tosa.rescale"(%64, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("y_0")
    "func.return"(%65) : (tensor<2x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
