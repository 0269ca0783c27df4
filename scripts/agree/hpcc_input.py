"""Input file of hpcc, of which HPL and STREAM are parts."""
INPUT = """\
HPLinpack benchmark input file
by plumb
HPL.out output file
8 device out
1 problem sizes
{n} Ns
{count} NBs
{blocks} NBs
0 PMAP
1 process grids
{p} Ps
{q} Qs
16.0 threshold
1 panel fact
2 PFACTs
1 recursive stopping criterium
4 NBMINs
1 panels in recursion
2 NDIVs
1 recursive panel fact.
1 RFACTs
1 broadcast
1 BCASTs
1 lookahead depth
1 DEPTHs
2 SWAP
64 swapping threshold
0 L1
0 U
1 Equilibration
8 memory alignment
##### separator #####
0 sizes for PTRANS
1000 Ns
0 blocking sizes for PTRANS
64 NBs
"""
