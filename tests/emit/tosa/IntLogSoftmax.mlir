"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi8>) -> (tensor<2x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<"0x00000040F8571F3C4AD47A3826D00E353DDFD7315CCAD22E2C8CFC2B324E5229F965D1266252772427B9412280642E20EC403B1E1E5B661C09DEAD1A0C11101936568B17AD281E16241BC71472D68413371856129BB1391121862E10868A330FB9C3470EE1456A0D6D339A0C3ABCD60BBF1C1F0B4E9D720A5A91D009C85638095255A908EAFD22082DCAA407DE3B2E0764DCBE06563C56060BF3F305339E970570E14005FF65EF045DDAA204F8F15A04E264170489EFD70371529C03F85164031AB62F03354AFE02DBDCCF029A3FA402D1467B0283C9540231A13002AEA90E0202C1EE013FC7D0016A9EB401592A9A01935081013FF86901010A5401E96F3F015C152C01FDE619019CD2080124C7F80089B4E900B58BDB007F3ECE0099BFC1008202B6007DFBAA00829FA00034E49600D7BF8D0045298500E8177D00AD83750000656E00C0B467003E6C610031855B00B0F9550030C450007BDF4B00AC46470029F54200A2E63E0006173B00868237008D253400BEFC3000F0042E002A3B2B00A49C2800BD26260001D723001EAB2100E9A01F0058B61D0080E91B0093381A00E2A11800D4231700ECBC1500C26B1400062F13007B051200F7ED100062E70F00B6F00E00FC080E004B2F0D00CC620C00B0A20B0038EE0A00AF440A006BA50900CE0F09004183080038FF07002F830700AA0E070034A10600603A0600C7D90500087F0500C9290500B4D90400788E0400CC470400680504000AC70300738C030068550300B421030021F1020080C30200A39802005E7002008A4A0200002702009E05020042E60100CCC801001FAD01001F930100B37A0100C1630100334E0100F4390100EE260100101501004604010081F40000B1E50000C6D70000B4CA00006CBE0000E2B200000CA80000DD9D00004D940000518B0000E0820000F27A00007F730000806C0000ED650000C05F0000F359000080540000614F0000924A00000D460000CF410000D23D0000133A00008E36000040330000253000003B2D00007D2A0000EA2700007F2500003923000017210000161F0000341D00006F1B0000C519000036180000BE1600005D15000012140000DB120000B6110000A4100000A10F0000AF0E0000CB0D0000F50C00002C0C0000700B0000BE0A0000180A00007B090000E80800005E080000DC07000062070000F0060000840600001F060000C00500006705000013050000C40400007A04000035040000F4030000B60300007D0300004703000014030000E4020000B70200008D02000066020000400200001E020000FD010000DE010000C1010000A60100008C010000740100005E0100004801000035010000220100001001000000010000F0000000E2000000D4000000C7000000BB000000B0000000A50000009B000000920000008900000081000000"> : tensor<1x256x1xi32>}> : () -> tensor<1x256x1xi32>
    %c5 = "tosa.const_shape"() <{values = dense<[1, 6]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c6 = "tosa.const_shape"() <{values = dense<[2, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c7 = "tosa.const"() <{values = dense<4095> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c8 = "tosa.const"() <{values = dense<12> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c9 = "tosa.const"() <{values = dense<8> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c10 = "tosa.const"() <{values = dense<255> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c11 = "tosa.const"() <{values = dense<4> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c12 = "tosa.const"() <{values = dense<511> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c13 = "tosa.const"() <{values = dense<20> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c14 = "tosa.const"() <{values = dense<31> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c15 = "tosa.const"() <{values = dense<51> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c16 = "tosa.const"() <{values = dense<28> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c17 = "tosa.const"() <{values = dense<0> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c18 = "tosa.const"() <{values = dense<48> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c19 = "tosa.const"() <{values = dense<256> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c20 = "tosa.const"() <{values = dense<1048575> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c21 = "tosa.const"() <{values = dense<"0xFE030000FA030000F6030000F2030000EF030000EA030000E7030000E3030000DF030000DB030000D8030000D4030000D0030000CD030000C9030000C5030000C2030000BF030000BB030000B7030000B4030000B1030000AD030000AA030000A7030000A3030000A00300009D030000990300009603000093030000900300008D030000890300008703000083030000800300007D0300007A0300007803000074030000710300006E0300006B030000690300006503000063030000600300005C0300005A0300005803000054030000520300004F0300004C0300004A0300004703000044030000410300003F0300003D030000390300003703000035030000320300002F0300002D0300002A030000280300002503000023030000210300001E0300001B0300001A0300001603000015030000120300000F0300000E0300000B0300000903000006030000040300000203000000030000FD020000FB020000F9020000F7020000F4020000F3020000F0020000EE020000EC020000EA020000E7020000E6020000E3020000E2020000DF020000DD020000DC020000D9020000D7020000D5020000D3020000D2020000CF020000CD020000CB020000C9020000C8020000C5020000C4020000C2020000BF020000BE020000BC020000BA020000B8020000B7020000B4020000B3020000B1020000AF020000AE020000AB020000AA020000A8020000A6020000A5020000A3020000A10200009F0200009D0200009C0200009B0200009802000097020000950200009302000092020000900200008F0200008D0200008B0200008A0200008802000086020000850200008402000081020000810200007E0200007D0200007C0200007A0200007802000077020000750200007402000073020000710200006F0200006E0200006C0200006B0200006A0200006802000067020000650200006402000062020000610200005F0200005E0200005D0200005C02000059020000590200005702000056020000540200005402000051020000510200004F0200004E0200004C0200004B0200004A02000048020000480200004502000045020000430200004202000041020000400200003E0200003D0200003C0200003A0200003A02000038020000360200003602000034020000330200003202000031020000300200002E0200002D0200002C0200002B0200002A02000028020000270200002602000025020000240200002302000022020000200200001F0200001E0200001E0200001B0200001B0200001A0200001902000017020000170200001502000014020000130200001302000011020000100200000F0200000D0200000D0200000C0200000B02000009020000090200000802000006020000060200000402000004020000020200000202000000020000"> : tensor<1x256x1xi32>}> : () -> tensor<1x256x1xi32>
    %c22 = "tosa.const_shape"() <{values = dense<[1, 2]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c23 = "tosa.const_shape"() <{values = dense<[2, 1]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c24 = "tosa.const"() <{values = dense<"0x00000000FE030000F8070000EE0B0000E00F0000CF130000B9170000A01B0000831F0000622300003D270000152B0000E92E0000B9320000863600004F3A0000143E0000D64100009545000050490000074D0000BB5000006C54000019580000C35B00006A5F00000D630000AD6600004A6A0000E36D0000797100000C7500009C780000297C0000B27F000039830000BC8600003C8A0000B98D000033910000AB9400001F980000909B0000FE9E000069A20000D2A5000037A900009AAC0000FAAF000056B30000B0B6000008BA00005CBD0000AEC00000FDC3000049C7000093CA0000DACD00001ED100005FD400009ED70000DBDA000014DE00004BE1000080E40000B2E70000E1EA00000EEE000038F1000060F4000085F70000A8FA0000C9FD0000E7000100020401001C070100320A0100470D0100591001006813010076160100811901008A1C0100901F0100942201009625010096280100932B01008E2E0100873101007E34010072370100653A0100553D0100434001002F4301001946010000490100E64B0100C94E0100AB5101008A54010067570100435A01001C5D0100F35F0100C86201009B6501006D6801003C6B0100096E0100D47001009D730100657601002A790100EE7B0100B07E01006F8101002D840100E9860100A38901005B8C0100128F0100C6910100799401002A970100D9990100879C0100329F0100DCA1010084A401002AA70100CFA9010072AC010013AF0100B2B101004FB40100EBB6010086B901001EBC0100B5BE01004AC10100DDC301006FC60100FFC801008ECB01001BCE0100A6D0010030D30100B8D501003ED80100C3DA010047DD0100C8DF010049E20100C7E4010044E70100C0E901003AEC0100B2EE010029F101009EF3010012F6010085F80100F6FA010065FD0100D3FF01003F020200AA040200140702007C090200E30B0200480E0200AC1002000E1302006F150200CE1702002C1A0200891C0200E51E02003E21020097230200EE25020044280200982A0200EC2C02003D2F02008E310200DD3302002B36020077380200C23A02000C3D0200543F02009C410200E14302002646020069480200AB4A0200EC4C02002C4F02006A510200A7530200E35502001D580200575A02008F5C0200C55E0200FB6002002F6302006265020094670200C5690200F56B0200236E0200507002007C720200A7740200D1760200F9780200207B0200467D02006B7F02008F810200B2830200D4850200F4870200138A0200318C02004F8E02006A900200859202009F940200B8960200CF980200E69A0200FB9C02000F9F020022A1020035A3020046A5020056A7020065A9020072AB02007FAD02008BAF020096B102009FB30200A8B50200B0B70200B6B90200BCBB0200C0BD0200C4BF0200C6C10200C8C30200"> : tensor<1x256x1xi32>}> : () -> tensor<1x256x1xi32>
    %c25 = "tosa.const"() <{values = dense<"0x85D2ACFF4D98AFFF165EB2FFDE23B5FFA6E9B7FF6FAFBAFF3775BDFFFF3AC0FFC800C3FF90C6C5FF598CC8FF2152CBFFE917CEFFB2DDD0FF7AA3D3FF4269D6FF0B2FD9FFD3F4DBFF9CBADEFF6480E1FF2C46E4FFF50BE7FFBDD1E9FF8597ECFF4E5DEFFF1623F2FFDFE8F4FFA7AEF7FF6F74FAFF383AFDFF00000000C8C50200918B05005951080021170B00EADC0D00B2A210007B681300432E16000BF41800D4B91B00"> : tensor<1x41x1xi32>}> : () -> tensor<1x41x1xi32>
    %c26 = "tosa.const"() <{values = dense<"0x00000000004000000080000000C0000000000100004001000080010000C0010000000200004002000080020000C0020000000300004003000080030000C0030000000400004004000080040000C0040000000500004005000080050000C0050000000600004006000080060000C0060000000700004007000080070000C0070000000800004008000080080000C0080000000900004009000080090000C0090000000A0000400A0000800A0000C00A0000000B0000400B0000800B0000C00B0000000C0000400C0000800C0000C00C0000000D0000400D0000800D0000C00D0000000E0000400E0000800E0000C00E0000000F0000400F0000800F0000C00F0000001000004010000080100000C0100000001100004011000080110000C0110000001200004012000080120000C0120000001300004013000080130000C0130000001400004014000080140000C0140000001500004015000080150000C0150000001600004016000080160000C0160000001700004017000080170000C0170000001800004018000080180000C0180000001900004019000080190000C0190000001A0000401A0000801A0000C01A0000001B0000401B0000801B0000C01B0000001C0000401C0000801C0000C01C0000001D0000401D0000801D0000C01D0000001E0000401E0000801E0000C01E0000001F0000401F0000801F0000C01F0000002000004020000080200000C0200000002100004021000080210000C0210000002200004022000080220000C0220000002300004023000080230000C0230000002400004024000080240000C0240000002500004025000080250000C0250000002600004026000080260000C0260000002700004027000080270000C0270000002800004028000080280000C0280000002900004029000080290000C0290000002A0000402A0000802A0000C02A0000002B0000402B0000802B0000C02B0000002C0000402C0000802C0000C02C0000002D0000402D0000802D0000C02D0000002E0000402E0000802E0000C02E0000002F0000402F0000802F0000C02F0000003000004030000080300000C0300000003100004031000080310000C0310000003200004032000080320000C0320000003300004033000080330000C0330000003400004034000080340000C0340000003500004035000080350000C0350000003600004036000080360000C0360000003700004037000080370000C0370000003800004038000080380000C0380000003900004039000080390000C0390000003A0000403A0000803A0000C03A0000003B0000403B0000803B0000C03B0000003C0000403C0000803C0000C03C0000003D0000403D0000803D0000C03D0000003E0000403E0000803E0000C03E0000003F0000403F0000803F0000C03F00"> : tensor<1x256x1xi32>}> : () -> tensor<1x256x1xi32>
    %c27 = "tosa.const"() <{values = dense<2> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c28 = "tosa.const"() <{values = dense<3> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c29 = "tosa.const"() <{values = dense<1> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c30 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c31 = "tosa.const"() <{values = dense<127> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("x_0")
    %1 = "tosa.reduce_max"(%0) <{axis = 1 : i32}> : (tensor<2x3xi8>) -> tensor<2x1xi8> loc("node")
    %2 = "tosa.cast"(%1) : (tensor<2x1xi8>) -> tensor<2x1xi32> loc("node")
    %3 = "tosa.cast"(%0) : (tensor<2x3xi8>) -> tensor<2x3xi32> loc("node")
    %4 = "tosa.sub"(%2, %3) : (tensor<2x1xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %5 = "tosa.reshape"(%4, %c5) : (tensor<2x3xi32>, !tosa.shape<2>) -> tensor<1x6xi32> loc("node")
    %6 = "tosa.gather"(%c4, %5) : (tensor<1x256x1xi32>, tensor<1x6xi32>) -> tensor<1x6x1xi32> loc("node")
    %7 = "tosa.reshape"(%6, %c6) : (tensor<1x6x1xi32>, !tosa.shape<2>) -> tensor<2x3xi32> loc("node")
    %8 = "tosa.bitwise_and"(%7, %c7) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %9 = "tosa.arithmetic_right_shift"(%7, %c8) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %10 = "tosa.bitwise_and"(%9, %c7) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %11 = "tosa.arithmetic_right_shift"(%9, %c8) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %12 = "tosa.reduce_sum"(%8) <{axis = 1 : i32}> : (tensor<2x3xi32>) -> tensor<2x1xi32> loc("node")
    %13 = "tosa.reduce_sum"(%10) <{axis = 1 : i32}> : (tensor<2x3xi32>) -> tensor<2x1xi32> loc("node")
    %14 = "tosa.reduce_sum"(%11) <{axis = 1 : i32}> : (tensor<2x3xi32>) -> tensor<2x1xi32> loc("node")
    %15 = "tosa.bitwise_and"(%12, %c7) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %16 = "tosa.arithmetic_right_shift"(%12, %c8) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %17 = "tosa.add"(%13, %16) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %18 = "tosa.bitwise_and"(%17, %c7) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %19 = "tosa.arithmetic_right_shift"(%17, %c8) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %20 = "tosa.add"(%14, %19) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %21 = "tosa.arithmetic_right_shift"(%18, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %22 = "tosa.arithmetic_right_shift"(%20, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %23 = "tosa.bitwise_and"(%20, %c10) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %24 = "tosa.logical_left_shift"(%23, %c11) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %25 = "tosa.add"(%21, %24) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %26 = "tosa.bitwise_and"(%18, %c10) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %27 = "tosa.logical_left_shift"(%26, %c8) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %28 = "tosa.add"(%27, %15) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %29 = "tosa.minimum"(%25, %c12) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %30 = "tosa.logical_left_shift"(%29, %c13) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %31 = "tosa.add"(%30, %28) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %32 = "tosa.clz"(%31) : (tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %33 = "tosa.sub"(%c14, %32) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %34 = "tosa.clz"(%25) : (tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %35 = "tosa.sub"(%c15, %34) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %36 = "tosa.sub"(%c16, %35) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %37 = "tosa.sub"(%c17, %36) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %38 = "tosa.maximum"(%37, %c17) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %39 = "tosa.sub"(%c16, %33) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %40 = "tosa.logical_left_shift"(%31, %39) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %41 = "tosa.sub"(%c18, %35) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %42 = "tosa.logical_left_shift"(%25, %41) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %43 = "tosa.arithmetic_right_shift"(%28, %38) <{round = false}> : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %44 = "tosa.add"(%42, %43) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %45 = "tosa.greater"(%25, %c12) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi1> loc("node")
    %46 = "tosa.select"(%45, %35, %33) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %47 = "tosa.select"(%45, %44, %40) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %48 = "tosa.arithmetic_right_shift"(%47, %c13) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %49 = "tosa.sub"(%48, %c19) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %50 = "tosa.bitwise_and"(%47, %c20) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %51 = "tosa.reshape"(%49, %c22) : (tensor<2x1xi32>, !tosa.shape<2>) -> tensor<1x2xi32> loc("node")
    %52 = "tosa.gather"(%c21, %51) : (tensor<1x256x1xi32>, tensor<1x2xi32>) -> tensor<1x2x1xi32> loc("node")
    %53 = "tosa.reshape"(%52, %c23) : (tensor<1x2x1xi32>, !tosa.shape<2>) -> tensor<2x1xi32> loc("node")
    %54 = "tosa.gather"(%c24, %51) : (tensor<1x256x1xi32>, tensor<1x2xi32>) -> tensor<1x2x1xi32> loc("node")
    %55 = "tosa.reshape"(%54, %c23) : (tensor<1x2x1xi32>, !tosa.shape<2>) -> tensor<2x1xi32> loc("node")
    %56 = "tosa.reshape"(%46, %c22) : (tensor<2x1xi32>, !tosa.shape<2>) -> tensor<1x2xi32> loc("node")
    %57 = "tosa.gather"(%c25, %56) : (tensor<1x41x1xi32>, tensor<1x2xi32>) -> tensor<1x2x1xi32> loc("node")
    %58 = "tosa.reshape"(%57, %c23) : (tensor<1x2x1xi32>, !tosa.shape<2>) -> tensor<2x1xi32> loc("node")
    %59 = "tosa.add"(%58, %55) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %60 = "tosa.bitwise_and"(%50, %c7) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %61 = "tosa.arithmetic_right_shift"(%50, %c8) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %62 = "tosa.mul"(%53, %50, %c3) : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %63 = "tosa.arithmetic_right_shift"(%62, %c13) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %64 = "tosa.add"(%59, %63) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %65 = "tosa.gather"(%c26, %5) : (tensor<1x256x1xi32>, tensor<1x6xi32>) -> tensor<1x6x1xi32> loc("node")
    %66 = "tosa.reshape"(%65, %c6) : (tensor<1x6x1xi32>, !tosa.shape<2>) -> tensor<2x3xi32> loc("node")
    %67 = "tosa.add"(%66, %64) : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32> loc("node")
    %68 = "tosa.sub"(%c17, %67) : (tensor<1x1xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %69 = "tosa.add"(%68, %c17) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %70 = "tosa.bitwise_and"(%69, %c7) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %71 = "tosa.arithmetic_right_shift"(%69, %c8) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %72 = "tosa.add"(%c27, %71) : (tensor<1x1xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %73 = "tosa.arithmetic_right_shift"(%72, %c27) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %74 = "tosa.bitwise_and"(%72, %c28) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %75 = "tosa.bitwise_or"(%70, %74) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %76 = "tosa.equal"(%75, %c17) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi1> loc("node")
    %77 = "tosa.bitwise_and"(%73, %c29) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %78 = "tosa.select"(%76, %77, %c17) : (tensor<2x3xi1>, tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %79 = "tosa.sub"(%73, %78) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %80 = "tosa.rescale"(%79, %c0, %c1, %c30, %c31) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<2x3xi8> loc("node")
    %81 = "tosa.rescale"(%80, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("y_0")
    "func.return"(%81) : (tensor<2x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
