"""Parse files in a process that has little time, little memory and no rights.

A file to import may be malicious: a few hundred bytes can keep a parser busy forever, fill the
memory, or exploit a defect in a library. So files are never parsed in the process that has the
library open.

    parsing.py      what the rest of Recollect calls: find files and read them
    process.py      starts the process, watches it, and kills it
    parser.py       runs in the process: calls the importers
    protocol.py     what the two send each other, and what a file may cost
    confinement.py  what the process gives up before it reads the first file

The parent never trusts what the process sends: it is JSON, its types are checked, and its size is
limited. If the process ends or exceeds a bound, the file it was reading becomes a Problem, and
another process continues with the next file.
"""
