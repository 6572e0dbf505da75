"""Characters beyond ASCII that read as one of the block's own. Made by scripts/make_lookalikes.py."""

from typing import Final

# Of Unicode 14.0.0.
# Under "" stand letters that are drawn as a separator or as nothing.
LOOKALIKES: Final[dict[str, str]] = {
    "": (
        "\u02b9\u02bb\u02bc\u02bd\u02be\u02c8\u02ca\u02cb\u0374\u05d9\u07f4\u07f5"
        "\u07fa\u115f\u1160\u144a\u16cc\u2cba\u2cc6\u3033\u30ce\u3164\u4e36\u4e3f"
        "\ua4f8\ua4f9\ua78c\uffa0"
    ),
    "(": ("\u207d\u208d\ufe35\ufe59\uff08"),
    ")": ("\u207e\u208e\ufe36\ufe5a\uff09"),
    "2": ("\u01a7\u01bb\u03e8\u14bf\ua644\ua6ef\ua75a"),
    "3": ("\u01b7\u021c\u0417\u0498\u04e0\u2ccc\ua76a\ua7ab\U000118ca\U00016f3b\U0001d206"),
    "4": ("\u13ce\U000118af"),
    "5": ("\u01bc\U000118bb"),
    "6": ("\u0431\u13ee\u2cd2\U000118d5"),
    "7": ("\U000104d2\U000118c6\U0001d212"),
    "8": ("\u0222\u0223\u09ea\u0a6a\U0001031a\U0001e8cb"),
    "9": ("\u09ed\u0a67\u0b68\u0d6d\u2cca\ua76e\U000118ac\U000118cc\U000118d6"),
    ":": ("\u02d0\u02f8\u0589\u05c3\u0703\u0704\u16ec\u1803\u1809\u205a\u2236\ua4fd\ua789\ufe30"),
    "<": (
        "\xab\u02c2\u1438\u16b2\u2039\u2264\u2266\u2268\u226a\u226e\u2270\u2272"
        "\u2274\u2276\u2277\u2278\u2279\u22d6\u22d8\u22da\u22db\u22dc\u22e6\u2329"
        "\u2343\u276c\u276e\u2770\u27e8\u27ea\u2976\u2977\u2991\u2993\u2996\u29c0"
        "\u29fc\u2a79\u2a7b\u2a7d\u2a7f\u2a81\u2a83\u2a85\u2a87\u2a89\u2a8b\u2a8c"
        "\u2a8d\u2a8f\u2a90\u2a91\u2a92\u2a93\u2a94\u2a95\u2a97\u2a99\u2a9b\u2a9d"
        "\u2a9f\u2aa1\u2aa3\u2aa4\u2aa5\u2aa6\u2aa8\u2af7\u2af9\u3008\u300a\ufe3d"
        "\ufe3f\ufe64\uff1c\U0001d236"
    ),
    "[": (
        "\u0f3a\u0f3c\u169b\u2045\u2308\u230a\u23a1\u23a2\u23a3\u2768\u276a\u2772"
        "\u2774\u27c5\u27e6\u27ec\u27ee\u2983\u2985\u2987\u2989\u298b\u298d\u298f"
        "\u2995\u2997\u29d8\u29da\u2e22\u2e24\u2e26\u2e28\u2e55\u2e57\u2e59\u2e5b"
        "\u300c\u300e\u3010\u3014\u3016\u3018\u301a\ufd3f\ufe17\ufe39\ufe3b\ufe41"
        "\ufe43\ufe47\ufe5d\uff3b\uff5f\uff62"
    ),
    "]": (
        "\u0f3b\u0f3d\u169c\u2046\u2309\u230b\u232a\u23a4\u23a5\u23a6\u2769\u276b"
        "\u276d\u276f\u2771\u2773\u2775\u27c6\u27e7\u27e9\u27eb\u27ed\u27ef\u2984"
        "\u2986\u2988\u298a\u298c\u298e\u2990\u2992\u2994\u2998\u29d9\u29db\u29fd"
        "\u2e23\u2e25\u2e27\u2e29\u2e56\u2e58\u2e5a\u2e5c\u3009\u300b\u300d\u300f"
        "\u3011\u3015\u3017\u3019\u301b\ufd3e\ufe18\ufe3a\ufe3c\ufe3e\ufe40\ufe42"
        "\ufe44\ufe48\ufe5e\uff3d\uff60\uff63"
    ),
    "c": (
        "\xa2\u0187\u0188\u023b\u023c\u0255\u0297\u03f2\u03f9\u0421\u0441\u04aa"
        "\u04ab\u13df\u1c83\u1d04\u20a1\u2184\u249e\u2ca4\u2ca5\ua4da\ua73e\ua73f"
        "\ua792\ua793\ua794\ua7c4\uabaf\U000102a2\U00010302\U00010415\U0001043d\U0001051c\U000118e9\U000118f2"
        "\U0001df0f\U0001df1d\U0001f112\U0001f152\U0001f16e\U0001f172\U0001f1e8\U0001f74c"
    ),
    "d": (
        "\xd0\xf0\u0110\u0111\u0189\u018a\u018b\u018c\u0221\u0256\u0257\u0500"
        "\u0501\u13a0\u13e7\u146f\u15de\u15ea\u1d05\u1d6d\u1d81\u1d91\u20ab\u249f"
        "\ua4d2\ua4d3\ua779\ua77a\ua7c7\ua7c8\uab70\uabb7\U0001f113\U0001f153\U0001f173\U0001f1a5"
        "\U0001f1e9"
    ),
    "e": (
        "\u018e\u0190\u01dd\u0246\u0247\u0258\u025b\u025c\u025d\u025e\u029a\u0395"
        "\u03b5\u03f5\u0415\u0435\u04bc\u04bd\u04be\u04bf\u13ac\u1d07\u1d08\u1d92"
        "\u1d93\u1d94\u212e\u22ff\u24a0\u2c78\u2c7b\u2d39\ua4f0\uab32\uab33\uab34"
        "\uab61\uab7c\U00010286\U000118a6\U000118ae\U000118ce\U0001d6ac\U0001d6e6\U0001d720\U0001d75a\U0001d794\U0001f114"
        "\U0001f154\U0001f174\U0001f1ea"
    ),
    "i": (
        "\u0131\u0268\u0269\u026a\u03b9\u0456\u04cf\u13a5\u1d09\u1d7b\u1d7c\u1d96"
        "\u1fbe\u2373\u2378\u24a4\ua646\ua647\ua7ae\ua7bd\ua7f7\uab75\U000118c3\U0001d6a4"
        "\U0001d6ca\U0001d704\U0001d73e\U0001d778\U0001d7b2\U0001df1a\U0001f1ee"
    ),
    "l": (
        "\u013f\u0140\u0141\u0142\u0196\u0197\u019a\u01c0\u0234\u023d\u026b\u026c"
        "\u026d\u029f\u0399\u0406\u04c0\u05d5\u05df\u0625\u0627\u0673\u07ca\u13de"
        "\u14aa\u16c1\u1d0c\u1d85\u24a7\u2c60\u2c61\u2c62\u2c92\u2c93\u2cd0\u2cd1"
        "\u2d4f\ua4e1\ua4f2\ua746\ua747\ua748\ua749\ua780\ua781\ua78e\ua7ad\ua7bc"
        "\uab37\uab38\uab39\uabae\ufd3c\ufd3d\ufe87\ufe88\ufe8d\ufe8e\U0001028a\U00010309"
        "\U00010320\U0001041b\U00010443\U00010526\U000118a3\U000118b2\U000118d2\U00016f16\U00016f28\U0001d6b0\U0001d6ea\U0001d724"
        "\U0001d75e\U0001d798\U0001df04\U0001df11\U0001df13\U0001e8c7\U0001ee00\U0001ee80\U0001f118\U0001f11b\U0001f158\U0001f15b"
        "\U0001f178\U0001f17b\U0001f1f1"
    ),
    "n": (
        "\u019d\u019e\u0220\u0235\u0272\u0273\u0274\u0397\u039d\u03b7\u0548\u054c"
        "\u0578\u057c\u1d0e\u1d70\u1d87\u24a9\u2c9a\u2c9b\ua4e0\ua790\ua791\ua7a4"
        "\ua7a5\uab3b\U0001018e\U00010513\U0001d6b4\U0001d6c8\U0001d6ee\U0001d702\U0001d728\U0001d73c\U0001d762\U0001d776"
        "\U0001d79c\U0001d7b0\U0001f11d\U0001f15d\U0001f17d\U0001f1f3"
    ),
    "o": (
        "\xd8\xf8\u0186\u019f\u01fe\u01ff\u0254\u0275\u0398\u039f\u03a3\u03b8"
        "\u03bf\u03c3\u03d1\u03f4\u041e\u043e\u0472\u0473\u04e8\u04e9\u0555\u0585"
        "\u05e1\u0647\u06be\u06c1\u06d5\u06ff\u0b20\u0d20\u1010\u101d\u10ff\u12d0"
        "\u13a4\u13be\u13eb\u1c82\u1cbf\u1d0f\u1d10\u1d11\u1d12\u1d13\u1d16\u1d17"
        "\u1d97\u2296\u229d\u236c\u24aa\u2c7a\u2c9e\u2c9f\u2d31\u2d41\u2d54\u3007"
        "\ua4f3\ua74a\ua74b\ua74c\ua74d\ua7c0\ua7c1\uab3d\uab3e\uab3f\uab74\uab8e"
        "\uabbb\ufba6\ufba7\ufba8\ufba9\ufbaa\ufbab\ufbac\ufbad\ufcd9\ufee9\ufeea"
        "\ufeeb\ufeec\U00010292\U000102ab\U00010404\U0001042c\U000104c2\U000104ea\U00010516\U000118a8\U000118b5\U000118b7"
        "\U000118c8\U000118d7\U0001d21a\U0001d6af\U0001d6b6\U0001d6b9\U0001d6c9\U0001d6d0\U0001d6d4\U0001d6dd\U0001d6e9\U0001d6f0"
        "\U0001d6f3\U0001d703\U0001d70a\U0001d70e\U0001d717\U0001d723\U0001d72a\U0001d72d\U0001d73d\U0001d744\U0001d748\U0001d751"
        "\U0001d75d\U0001d764\U0001d767\U0001d777\U0001d77e\U0001d782\U0001d78b\U0001d797\U0001d79e\U0001d7a1\U0001d7b1\U0001d7b8"
        "\U0001d7bc\U0001d7c5\U0001df1b\U0001ee24\U0001ee64\U0001ee84\U0001f11e\U0001f15e\U0001f17e\U0001f1f4\U0001f714"
    ),
    "r": (
        "\u01a6\u024c\u024d\u0279\u027a\u027b\u027c\u027d\u027e\u027f\u0280\u0281"
        "\u0413\u0433\u0492\u0493\u13a1\u13b1\u13d2\u1587\u1d19\u1d1a\u1d26\u1d72"
        "\u1d73\u1d89\u24ad\u2c64\u2c79\u2c84\u2c85\ua4e3\ua782\ua783\ua7a6\ua7a7"
        "\uab45\uab46\uab47\uab48\uab49\uab4a\uab4b\uab4c\uab68\uab71\uab81\uaba2"
        "\U000104b4\U000104dc\U00016f35\U0001d216\U0001df08\U0001df15\U0001df16\U0001f121\U0001f161\U0001f181\U0001f1f7"
    ),
    "t": (
        "\u0166\u0167\u01ab\u01ac\u01ad\u01ae\u0236\u023e\u0287\u0288\u03a4\u03c4"
        "\u0422\u0442\u04ac\u04ad\u13a2\u1c84\u1c85\u1d1b\u1d75\u20ae\u22a4\u2361"
        "\u24af\u27d9\u2c66\u2ca6\u2ca7\ua4d4\ua786\ua787\ua7b1\uab72\U00010297\U000102b1"
        "\U00010315\U000118bc\U000118dc\U00016f0a\U0001d6bb\U0001d6f5\U0001d72f\U0001d769\U0001d7a3\U0001df09\U0001df0d\U0001f123"
        "\U0001f163\U0001f183\U0001f1f9\U0001f768"
    ),
    "v": (
        "\u01b2\u0245\u028b\u028c\u03bd\u0474\u0475\u05d8\u0667\u06f7\u13d9\u142f"
        "\u1d20\u1d8c\u2228\u22c1\u24b1\u2c71\u2c74\u2d38\ua4e6\ua6df\ua75e\ua75f"
        "\uaba9\U00010197\U0001051d\U00011706\U000118a0\U000118c0\U00016f08\U0001d20d\U0001d6ce\U0001d708\U0001d742\U0001d77c"
        "\U0001d7b6\U0001f125\U0001f165\U0001f185\U0001f1fb\U0001f708"
    ),
    "x": (
        "\xd7\u03a7\u03c7\u0425\u0445\u04b2\u04b3\u1541\u157d\u166d\u166e\u16b7"
        "\u1d8d\u24b3\u2573\u292b\u292c\u2a2f\u2a30\u2cac\u2cad\u2d5d\ua4eb\ua7b3"
        "\uab53\uab56\uab57\uab58\uab59\U00010196\U00010290\U000102b4\U00010317\U00010322\U00010527\U000118ec"
        "\U0001d6be\U0001d6f8\U0001d732\U0001d76c\U0001d7a6\U0001f127\U0001f167\U0001f187\U0001f1fd"
    ),
    "|": ("\u05c0\u2223\u23fd\uffe8\U0001d22a"),
}
